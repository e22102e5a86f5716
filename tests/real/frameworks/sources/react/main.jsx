import { useState } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter, Link, Route, Routes, useLocation } from "react-router";

function Home() {
  const [count, setCount] = useState(0);
  return <><h1>Home</h1><button onClick={() => setCount(count + 1)}>Count</button><output>{count}</output></>;
}
function About() {
  return <><h1>About</h1><ul>{[1, 2, 3].map((id) => <li key={id}><Link to={`/item/${id}`}>{`Item ${id}`}</Link></li>)}</ul></>;
}
function Item() {
  const { pathname, search } = useLocation();
  return <><h1>{`Item ${pathname.split("/").pop()}`}</h1><p>{`At ${pathname}${search}`}</p></>;
}

createRoot(document.getElementById("root")).render(
  <BrowserRouter>
    <nav><Link to="/">Home</Link> <Link to="/about">About</Link></nav>
    <main>
      <Routes>
        <Route path="/" element={<Home />} />
        <Route path="/about" element={<About />} />
        <Route path="/item/:id" element={<Item />} />
      </Routes>
    </main>
  </BrowserRouter>,
);
