package web

// consoleB holds what the payment, action, webhook log, queue and checkout pages keep.
type consoleB struct{}

// registerConsoleB adds their routes.
func registerConsoleB(s *Server) {}
