// The history of calls: filters, the list, and two calls compared. The address is its state.
import { getRouteApi } from "@tanstack/react-router";

import { CallList, type CallListProps } from "./call-list.tsx";
import { TwoCalls } from "./two-calls.tsx";

const route = getRouteApi("/calls");

export default function CallsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const go: CallListProps["onSearch"] = (next, replace = false) =>
    void navigate({ search: next, replace });
  const { compare } = search;
  if (compare) {
    return (
      <TwoCalls
        ids={compare}
        onSwap={() => go({ ...search, compare: [compare[1], compare[0]] }, true)}
        onBack={() => go({ ...search, compare: undefined })}
      />
    );
  }
  return <CallList search={search} onSearch={go} />;
}
