import { useState } from "react";

export default function Counter() {
  const [count, setCount] = useState(0);
  return <div><a href="/about?from=counter">Elsewhere</a> <button onClick={() => setCount(count + 1)}>Count</button><output>{count}</output></div>;
}
