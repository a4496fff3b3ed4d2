import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function LivePage() {
  return <Page title={words.pages.live}>{null}</Page>;
}
