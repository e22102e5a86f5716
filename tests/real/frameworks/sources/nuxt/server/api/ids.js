export default defineEventHandler(() => [1, 2, 3]);
