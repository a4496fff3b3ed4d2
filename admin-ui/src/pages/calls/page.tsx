import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function CallsPage() {
  return <Page title={words.pages.calls}>{null}</Page>;
}
