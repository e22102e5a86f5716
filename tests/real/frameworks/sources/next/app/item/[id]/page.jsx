import { Where } from "./where";

export default async function Item({ params, searchParams }) {
  const { id } = await params;
  return <><h1>{`Item ${id}`}</h1><p>{JSON.stringify(await searchParams)}</p><Where /></>;
}
