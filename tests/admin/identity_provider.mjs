// A certified OpenID provider (oidc-provider) for the tests of the sign-in.
//   node identity_provider.mjs PORT REDIRECT_URI
// Accounts are made by their names; ops-* are in the group `voice-ops`. Prints a line when ready.
import { createRequire } from "node:module";
const { Provider } = await import(
  createRequire(process.env.NPM_FOLDER + "/").resolve("oidc-provider")
);
const [port, redirect] = process.argv.slice(2);
const claims = (id) => ({
  sub: id,
  preferred_username: id,
  groups: id.startsWith("ops-") ? ["staff", "voice-ops"] : ["staff"],
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "cordboard",
      client_secret: "a secret & its =s",
      redirect_uris: [redirect],
      grant_types: ["authorization_code"],
      response_types: ["code"],
      token_endpoint_auth_method: "client_secret_basic",
    },
  ],
  pkce: { required: () => true },
  cookies: { keys: ["a key for the cookies of the tests"] },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email"] },
  features: { devInteractions: { enabled: true } },
  findAccount: (context, id) => ({ accountId: id, claims: () => claims(id) }),
});
provider.on("server_error", (context, error) => console.error(error));
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
