import Link from "next/link";

export default function About() {
  return <><h1>About</h1><ul>{[1, 2, 3].map((id) => <li key={id}><Link href={`/item/${id}`}>{`Item ${id}`}</Link></li>)}</ul></>;
}
