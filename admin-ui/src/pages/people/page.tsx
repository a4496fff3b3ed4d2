import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function PeoplePage() {
  return <Page title={words.pages.people}>{null}</Page>;
}
