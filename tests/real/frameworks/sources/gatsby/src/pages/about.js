import { Link } from "gatsby";
import React from "react";
import Layout from "../components/layout";

export default function About() {
  return <Layout><h1>About</h1><ul>{[1, 2, 3].map((id) => <li key={id}><Link to={`/item/${id}/`}>{`Item ${id}`}</Link></li>)}</ul></Layout>;
}
