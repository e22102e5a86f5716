import React from "react";
import Layout from "../../components/layout";

export default function Item({ location }) {
  return <Layout><h1>Item 2</h1><p>{`At ${location.pathname}`}</p></Layout>;
}
