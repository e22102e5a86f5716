import { Link } from "react-router";

export const loader = () => ({ ids: [1, 2, 3] });

export default function About({ loaderData }) {
  return <><h1>About</h1><ul>{loaderData.ids.map((id) => <li key={id}><Link to={`/item/${id}`} prefetch="intent">{`Item ${id}`}</Link></li>)}</ul></>;
}
