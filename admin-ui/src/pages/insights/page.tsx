import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function InsightsPage() {
  return <Page title={words.pages.insights}>{null}</Page>;
}
