import { Page } from "../../parts/page.tsx";
import { words } from "../../words/shell.ts";

export default function ProvidersPage() {
  return <Page title={words.pages.providers}>{null}</Page>;
}
