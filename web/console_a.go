package web

// consoleA holds what the overview, payment list, provider and live pages keep.
type consoleA struct{}

// registerConsoleA adds their routes.
func registerConsoleA(s *Server) {}
