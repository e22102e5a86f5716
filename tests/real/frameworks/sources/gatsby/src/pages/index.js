import React, { useState } from "react";
import Layout from "../components/layout";

export const Head = () => <><title>Gatsby</title><link rel="icon" href="data:," /></>;

export default function Home() {
  const [count, setCount] = useState(0);
  return <Layout><h1>Home</h1><button onClick={() => setCount(count + 1)}>Count</button><output>{count}</output></Layout>;
}
