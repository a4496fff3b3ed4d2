import { LEAST_PASSWORD } from "../app/session.ts";

export const words = {
  title: "Sign in",
  over: "Your session is over. What you have not saved yet is still on the page.",
  name: "Name",
  password: "Password",
  code: "Code",
  codeHint: "Only with a second factor: of your authenticator app, or a recovery code.",
  signIn: "Sign in",
  linkTitle: "Choose your password",
  linkAbout: "This link works once. Afterwards you sign in with your name and this password.",
  newPassword: "New password",
  rule: `At least ${LEAST_PASSWORD} characters. A few words that only you put together are best.`,
  tooShort: (length: number) =>
    `At least ${LEAST_PASSWORD} characters are needed; these are ${length}.`,
  show: "Show",
  hide: "Hide",
  usePassword: "Set password and sign in",
  firstTitle: "Nobody can sign in yet",
  firstAbout: "Make the first account on the engine's machine. The command prints a link for it:",
  command: "cordboard users add NAME",
  noPasswords: "This engine signs people in through your organisation only.",
} as const;
