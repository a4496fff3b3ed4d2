import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function EnginePage() {
  return <Page title={words.pages.engine}>{null}</Page>;
}
