import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function AlarmsPage() {
  return <Page title={words.pages.alarms}>{null}</Page>;
}
