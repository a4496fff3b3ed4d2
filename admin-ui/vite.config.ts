// Build and development server of the page. `scripts/install-admin-ui --build` runs the build.
//
// For development: start an engine with `admin.ui.enabled`, then
//   CORDBOARD_ADMIN=http://127.0.0.1:15001 npm run dev
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const ENGINE = process.env.CORDBOARD_ADMIN ?? "http://127.0.0.1:15001";

export default defineConfig({
  // node_modules is a link into the cache folder, which other checkouts use too.
  cacheDir: "../build/vite",
  plugins: [react(), tailwind()],
  // The engine replaces the word by a new nonce in each answer.
  html: { cspNonce: "__NONCE__" },
  build: {
    target: "es2022",
    outDir: "../src/cordboard/admin/assets",
    emptyOutDir: true,
    manifest: "manifest.json",
    license: { fileName: "licenses.txt" }, // of all packages inside; the page links to it
    assetsInlineLimit: 0, // `data:` scripts and workers are refused by the page's policy
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
    rolldownOptions: {
      output: {
        // Each page is a file of its own, with its name.
        chunkFileNames: ({ facadeModuleId }) => {
          const page = /pages\/([^/]+)\/page\.tsx$/.exec(facadeModuleId ?? "")?.[1];
          return `assets/${page ?? "[name]"}-[hash].js`;
        },
        // What several pages share is few files: each file costs a request before the first page.
        codeSplitting: {
          groups: [
            { name: "react", test: /node_modules[\\/](react|react-dom|scheduler)[\\/]/ },
            { name: "shared", minShareCount: 3 },
          ],
        },
      },
    },
  },
  server: {
    // The same link leads out of this folder.
    fs: { strict: false },
    proxy: {
      "/api": {
        target: ENGINE,
        ws: true,
        changeOrigin: true,
        // The engine takes changes and sockets from its own origin only.
        headers: { Origin: ENGINE },
      },
    },
  },
  test: { environment: "node", include: ["tests/**/*.test.ts"] },
});
