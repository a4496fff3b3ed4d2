import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function TryPage() {
  return <Page title={words.pages.try}>{null}</Page>;
}
