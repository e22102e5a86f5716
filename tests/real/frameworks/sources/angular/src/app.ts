import { Component, inject, signal } from "@angular/core";
import { ActivatedRoute, Router, RouterLink, RouterOutlet, Routes } from "@angular/router";

@Component({
  selector: "app-home",
  template: `<h1>Home</h1><button (click)="count.set(count() + 1)">Count</button><output>{{ count() }}</output>`,
})
export class Home {
  count = signal(0);
}

@Component({
  selector: "app-about",
  imports: [RouterLink],
  template: `<h1>About</h1><ul>@for (id of [1, 2, 3]; track id) {<li><a [routerLink]="['/item', id]">Item {{ id }}</a></li>}</ul>`,
})
export class About {}

@Component({ selector: "app-item", template: `<h1>Item {{ id }}</h1><p>At {{ url }}</p>` })
export class Item {
  id = inject(ActivatedRoute).snapshot.params["id"];
  url = inject(Router).url;
}

export const routes: Routes = [
  { path: "", component: Home },
  { path: "about", component: About },
  { path: "item/:id", component: Item },
];

@Component({
  selector: "app-root",
  imports: [RouterLink, RouterOutlet],
  template: `<nav><a routerLink="/">Home</a> <a routerLink="/about">About</a></nav><main><router-outlet /></main>`,
})
export class App {}
