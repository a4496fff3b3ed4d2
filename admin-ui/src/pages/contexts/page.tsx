import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function ContextsPage() {
  return <Page title={words.pages.contexts}>{null}</Page>;
}
