// Package logger writes for the person in front of a terminal: plain lines, marks
// for what went well or wrong, an animation for what takes long. It is the log of
// the node provisioner library, whose API names FunLogger.
//
// A program with a log of its own passes it by NewSlog; FunLogger.Slog is the other
// direction, for code that logs by slog.
package logger
