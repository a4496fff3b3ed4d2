import { useSyncExternalStore } from "react";

const wide = () => window.matchMedia("(width >= 56.25rem)");
