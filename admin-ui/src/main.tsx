import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { createRoot } from "react-dom/client";

import "./app/theme.css";
import { makeQueries } from "./app/api.ts";
import { shareNonce } from "./app/nonce.ts";
import { router } from "./app/router.tsx";
import { followTheme } from "./app/theme.ts";
import { Toasts } from "./parts/toast.tsx";

shareNonce();
followTheme();
const page = document.getElementById("page");
if (page === null) throw new Error("index.html has no #page");
createRoot(page).render(
  <QueryClientProvider client={makeQueries()}>
    <RouterProvider router={router} />
    <Toasts />
  </QueryClientProvider>,
);
