"use strict";
// Two pages are stored when the worker is installed, the others when they are visited.
const STORE = "pages-1";

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(STORE).then((store) => store.addAll(["/", "/about", "/no-network"])));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function answer(request) {
  try {
    const response = await fetch(request);
    const store = await caches.open(STORE);
    await store.put(request, response.clone());
    return response;
  } catch {
    const { pathname, search } = new URL(request.url);
    const known = await caches.match(search ? request : pathname);
    return known ?? caches.match("/no-network");
  }
}

self.addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate") {
    event.respondWith(answer(event.request));
  }
});
