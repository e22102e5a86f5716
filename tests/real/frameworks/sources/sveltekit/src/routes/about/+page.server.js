export const load = () => ({ ids: [1, 2, 3] });
