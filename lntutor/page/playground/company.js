// The placements beside the chosen one: measured one after the other, in workers of their own.

class Company {
  constructor(data, { onNews, onError }) {
    Object.assign(this, { data, onNews, onError, client: null, members: [], jobs: [], asked: "" })
  }

  // Measure these: { state, text, style, graph, config }. First one network of each, then all of them with theory.
  ask(members) {
    const asked = JSON.stringify(members.map(({ text, config }) => [text, config.along]))
    if (asked === this.asked) return
    const known = new Map(this.members.map((one) => [one.state.placement, one]))
    this.members = members.map((member) => {
      const old = known.get(member.state.placement)
      const same = old?.text === member.text && sameValue(old.config.along?.values, member.config.along?.values)
      return { ...member, shown: old?.shown ?? null, first: same && old.first, whole: same && old.whole }
    })
    this.asked = asked
    const quick = this.members.filter((one) => !one.first).map((one) => [one, { seeds: 1, theory: false }])
    const whole = this.members.filter((one) => !one.whole).map((one) => [one, {}])
    this.jobs = [...quick, ...whole]
    this.next()
  }

  next() {
    const job = this.jobs.shift()
    if (!job) return
    const [member, change] = job
    this.client ??= new Client(this.data, { alone: true })
    this.client.request({ ...member.config, ...change }, {
      onResult: (result) => result.done && this.take(member, result, !Object.keys(change).length),
      onError: (sentence) => this.give(sentence),
    })
  }

  take(member, result, whole) {
    Object.assign(member, { first: true, whole, shown: { ...member, live: true, result } })
    this.next()
    this.onNews()
  }

  give(sentence) {
    this.asked = ""
    this.jobs = []
    this.onError(sentence)
  }

  // What can be drawn; the last that was measured where the numbers asked for are still to come
  get shown() {
    return this.members.map((one) => one.shown).filter(Boolean)
  }

  get behind() {
    return this.members.some((one) => !one.first)
  }

  get done() {
    return this.members.every((one) => one.whole)
  }

  close() {
    this.client?.close()
  }
}
