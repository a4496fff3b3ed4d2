import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function CallPage() {
  return <Page title={words.pages.call}>{null}</Page>;
}
