// The pages of tools: the list, one tool with its tester, and the MCP servers.
import { useLocation, useParams } from "@tanstack/react-router";
import { useChoices } from "./choices.ts";
import { ServerEditor } from "./server-editor.tsx";
import { ServersPage } from "./servers.tsx";
import { ToolPage } from "./tool.tsx";
import { ToolList } from "./tool-list.tsx";

export default function ToolsPage() {
  const { tool } = useParams({ strict: false });
  const atServers = useLocation({ select: ({ pathname }) => pathname.startsWith("/mcp") });
  const [{ edit, add }] = useChoices();
  if (tool !== undefined) return <ToolPage key={tool} name={tool} />;
  if (!atServers) return <ToolList />;
  if (edit !== undefined || add) return <ServerEditor key={edit} name={edit ?? ""} />;
  return <ServersPage />;
}
