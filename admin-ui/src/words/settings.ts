export const words = {
  title: "Settings",
  tabs: { profile: "You", browser: "This browser", data: "Data", about: "About" },

  account: "Your account",
  name: "Name",
  role: "Role",
  scope: "Contexts",
  allContexts: "all",
  permissions: "Permissions",
  signOut: "Sign out",

  password: {
    title: "Password",
    about: "All your other sessions end when you change it.",
    now: "Present password",
    next: "New password",
    change: "Change password",
    changed: "Your password was changed",
  },

  others: {
    title: "Other sessions",
    none: "You are signed in nowhere else.",
    label: "Your other sessions",
    client: "Address",
    began: "Signed in",
    seen: "Last request",
    end: "End them all",
    ended: "Your other sessions were ended",
  },

  factor: {
    title: "Second factor",
    on: "An authenticator app is asked for at each sign-in.",
    off: "Sign-in asks for the password alone. With an authenticator app, a stolen password is not enough.",
    add: "Set up",
    remove: "Remove",
    removeTitle: "Remove the second factor?",
    removeAbout: "Sign-in then asks for the password alone. The recovery codes no longer work.",
    removed: "The second factor was removed",
    dialog: "Set up an authenticator app",
    first: "1. Add this to the app: open the link on the device that has it, or type the key.",
    link: "Open in an authenticator app",
    key: "Key",
    second: "2. Type the code that the app shows.",
    code: "Code",
    confirm: "Confirm",
    codesTitle: "Recovery codes",
    codesAbout:
      "Each replaces a code of the app once. Keep them where you will find them without your phone: they are not shown again.",
    stored: "I have stored them",
  },

  provider: {
    title: "Your organisation",
    about: "Connect this account with the one of your organisation, to sign in with it.",
  },

  look: "Appearance",
  theme: "Theme",
  themes: { system: "As the system", light: "Light", dark: "Dark" },
  keyboard: "Keyboard",
  shortcuts: "Shortcuts of single keys",
  shortcutsHint:
    "Such as j and k for rows, g and l for the live calls. ? lists them; Ctrl K always works.",
  zone: "Times",
  zoneAbout: (zone: string) => `Times are shown in this browser's zone, ${zone}.`,

  retention: {
    title: "Retention",
    about: "These are keys of the configuration; change them under Contexts.",
    open: "Open the configuration",
    what: "What",
    how: "Kept for",
    key: "Key",
    calls: "Calls: ledger, notes, recording",
    recordings: (context: string) => `Recordings of ${context}`,
    audit: "Audit",
    ever: "for ever",
    days: (count: number) => (count === 1 ? "1 day" : `${count} days`),
    months: (count: number) => (count === 1 ? "1 month" : `${count} months`),
  },

  erase: {
    title: "Erase calls",
    about:
      "Removes calls with all their files: ledger, recording, notes, index. Look first; nothing is erased until you confirm.",
    by: "Erase by",
    number: "Caller's number",
    call: "Id of a call",
    numberHint: "Exactly as in the history, such as +4533112233.",
    look: "Show what would go",
    nothing: "Nothing fits.",
    wouldGo: (calls: number, files: number, refused: number) =>
      `${calls === 1 ? "1 call" : `${calls} calls`}, ${refused === 1 ? "1 refused offer" : `${refused} refused offers`}, ${files === 1 ? "1 file" : `${files} files`}.`,
    running: (count: number) =>
      count === 1
        ? "1 call has not ended; it stays. Try again afterwards."
        : `${count} calls have not ended; they stay. Try again afterwards.`,
    others: (forms: readonly string[]) =>
      `There are calls of ${forms.join(", ")}, too, perhaps of the same person: erase them by that number.`,
    unreadable: (count: number) =>
      count === 1
        ? "1 call cannot be read and may be of this number: the erasure is not complete until it is."
        : `${count} calls cannot be read and may be of this number: the erasure is not complete until they are.`,
    confirm: "Erase",
    confirmTitle: "Erase these calls for good?",
    confirmAbout:
      "It cannot be undone. The audit keeps that you did it, without the number's words.",
    erased: (calls: number) => (calls === 1 ? "1 call was erased" : `${calls} calls were erased`),
    list: "Calls that would go",
  },

  about: {
    title: "About",
    version: "Version of the engine",
    license: "Licence",
    apache: "Apache-2.0",
    packages: "Licences of the packages in this page",
    setup: "Check the set-up",
  },
} as const;
