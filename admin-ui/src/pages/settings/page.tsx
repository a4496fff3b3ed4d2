import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function SettingsPage() {
  return <Page title={words.pages.settings}>{null}</Page>;
}
