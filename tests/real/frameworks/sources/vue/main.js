import { createApp, h, ref } from "vue";
import { createRouter, createWebHistory, RouterLink, RouterView, useRoute } from "vue-router";

const link = (to, text) => h(RouterLink, { to }, () => text);
const Home = {
  setup() {
    const count = ref(0);
    return () => [h("h1", "Home"), h("button", { onClick: () => count.value++ }, "Count"), h("output", count.value)];
  },
};
const About = { render: () => [h("h1", "About"), h("ul", [1, 2, 3].map((id) => h("li", link(`/item/${id}`, `Item ${id}`))))] };
const Item = {
  setup() {
    const route = useRoute();
    return () => [h("h1", `Item ${route.params.id}`), h("p", `At ${route.fullPath}`)];
  },
};
const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: "/", component: Home },
    { path: "/about", component: About },
    { path: "/item/:id", component: Item },
  ],
});
const App = { render: () => [h("nav", [link("/", "Home"), " ", link("/about", "About")]), h("main", h(RouterView))] };
createApp(App).use(router).mount("#app");
