import { Link } from "gatsby";
import React from "react";

export default function Layout({ children }) {
  return <><nav><Link to="/">Home</Link> <Link to="/about/">About</Link></nav><main>{children}</main></>;
}
