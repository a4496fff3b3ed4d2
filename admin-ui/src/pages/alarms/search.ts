export interface Search {
  tab?: string | undefined;
}

export function search(_raw: Record<string, unknown>): Search {
  return {};
}
