package bench

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used; zero values are not known.
type usage struct {
	cpu  time.Duration // user and system, all threads
	peak int64         // resident memory, bytes
}

// clockTick is the unit of the kernel's CPU times, USER_HZ: 100 a second on
// every architecture that Go supports.
const clockTick = time.Second / 100

// readUsage reads /proc of another process. Where there is none, or of this
// process itself (the load would count too), nothing is known.
func readUsage(pid int) usage {
	var u usage
	if pid == 0 {
		return u
	}
	folder := "/proc/" + strconv.Itoa(pid)
	if stat, err := os.ReadFile(folder + "/stat"); err == nil {
		u.cpu = parseCPU(stat)
	}
	if status, err := os.ReadFile(folder + "/status"); err == nil {
		u.peak = parsePeak(string(status))
	}
	return u
}

// parseCPU reads utime and stime, the fields 14 and 15 of /proc/PID/stat. The
// second field is the program's name in brackets, which may hold anything.
func parseCPU(stat []byte) time.Duration {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if errUser != nil || errSystem != nil {
		return 0
	}
	return time.Duration(user+system) * clockTick
}

// parsePeak reads VmHWM of /proc/PID/status.
func parsePeak(status string) int64 {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

// since is the CPU used between two readings, and the later peak.
func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, peak: u.peak}
}

func (u usage) fill(r *Result) {
	if u.cpu > 0 && r.Delivered > 0 {
		r.CPUPerDelivery = new(float64(u.cpu.Microseconds()) / float64(r.Delivered))
	}
	if u.peak > 0 {
		r.PeakMemory = new(float64(u.peak) / (1 << 20))
	}
}
