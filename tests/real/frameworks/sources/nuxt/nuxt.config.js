export default defineNuxtConfig({
  compatibilityDate: "2026-01-01",
  telemetry: false,
  app: { head: { title: "Nuxt", link: [{ rel: "icon", href: "data:," }] } },
});
