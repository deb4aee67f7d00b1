// Starts the page for phones: reads the pairing from the address, then shows what waits.

import { mount } from "svelte";
import "../app.css";
import Phone from "./Phone.svelte";
import { phone } from "./state.svelte.ts";

const target = document.getElementById("app");
if (target) {
  mount(Phone, { target });
  void phone.start();
}
