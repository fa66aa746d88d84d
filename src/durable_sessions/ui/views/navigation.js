// The views that the bar leads to.
export const NAVIGATION = [
  { name: "Sessions", path: "/", views: ["sessions", "session", "graph", "dossier", "usage"] },
  { name: "Search", path: "/search", views: ["search"] },
  { name: "Approvals", path: "/approvals", views: ["approvals"] },
  { name: "Compare", path: "/compare", views: ["compare"] },
  { name: "Memory", path: "/memory", views: ["memory"] },
  { name: "Admin", path: "/admin/health", views: ["admin"], may: "admin" },
];
