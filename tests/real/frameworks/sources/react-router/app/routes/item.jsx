import { useLocation } from "react-router";

export const loader = ({ params, request }) => ({ id: params.id, at: new URL(request.url).search });

export default function Item({ loaderData }) {
  const { pathname, search } = useLocation();
  return <><h1>{`Item ${loaderData.id}`}</h1><p>{`At ${pathname}${search}${loaderData.at}`}</p></>;
}
