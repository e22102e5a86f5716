import Link from "next/link";

export const metadata = { title: "Next", icons: "data:," };

export default function Layout({ children }) {
  return (
    <html lang="en">
      <body>
        <nav><Link href="/">Home</Link> <Link href="/about">About</Link></nav>
        <main>{children}</main>
      </body>
    </html>
  );
}
