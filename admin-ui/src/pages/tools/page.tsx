import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function ToolsPage() {
  return <Page title={words.pages.tools}>{null}</Page>;
}
