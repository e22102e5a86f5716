export const load = ({ params, url }) => ({ id: params.id, search: url.search });
