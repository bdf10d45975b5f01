package components

import (
	"strconv"
	"strings"
)

// Size of a sparkline's drawing space; CSS scales it.
const (
	sparkWidth  = 240
	sparkHeight = 40
)

// bars returns the rectangles of the solid series as one path, scaled to the
// largest value of both series.
func (s SparkProps) bars() string {
	var b strings.Builder
	top, step := s.top(), s.step()
	for i, v := range s.Now {
		if v <= 0 {
			continue
		}
		h := max(float64(v)/float64(top)*(sparkHeight-2), 1.5)
		x := float64(i)*step + step*0.14
		b.WriteString("M" + num(x) + " " + num(sparkHeight-h) + "h" + num(step*0.72) + "V" + num(sparkHeight) + "h" + num(-step*0.72) + "z")
	}
	return b.String()
}

// line returns the comparison series as a step line.
func (s SparkProps) line() string {
	if len(s.Before) == 0 {
		return ""
	}
	var b strings.Builder
	top, step := s.top(), s.step()
	for i, v := range s.Before {
		y := sparkHeight - 1 - float64(v)/float64(top)*(sparkHeight-2)
		cmd := "L"
		if i == 0 {
			cmd = "M"
		}
		b.WriteString(cmd + num(float64(i)*step) + " " + num(y) + "h" + num(step))
	}
	return b.String()
}

func (s SparkProps) top() int64 {
	top := int64(1)
	for _, v := range s.Now {
		top = max(top, v)
	}
	for _, v := range s.Before {
		top = max(top, v)
	}
	return top
}

func (s SparkProps) step() float64 {
	return sparkWidth / float64(max(len(s.Now), len(s.Before), 1))
}

// num prints a coordinate with one decimal at most.
func num(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// at returns the i-th value of a series, or 0.
func at(series []int64, i int) int64 {
	if i < len(series) {
		return series[i]
	}
	return 0
}
