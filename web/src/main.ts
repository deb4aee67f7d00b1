// Starts the dashboard: reads the sign-in from the address, then shows the page.

import { mount } from "svelte";
import "./app.css";
import App from "./App.svelte";
import { api } from "./state/api.svelte.ts";

const target = document.getElementById("app");
if (target) {
  mount(App, { target });
  void api.start();
}
