import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function SetupPage() {
  return <Page title={words.pages.setup}>{null}</Page>;
}
