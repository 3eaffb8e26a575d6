// anywidget 0.11 gives a widget up for good, without a word, if its module has not loaded within 2 s, as happens on a
// busy machine: it then takes nothing from the kernel any more. Here it waits a minute.
if (!AbortSignal.timeout.patient) {
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  AbortSignal.timeout = Object.assign((ms) => timeout(ms === 2000 ? 60_000 : ms), { patient: true })
}
