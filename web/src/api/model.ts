/** The documents of the REST API under short names. The shapes come from the OpenAPI document that the server's code writes. */
import type { components } from "./schema.gen";

type Schemas = components["schemas"];

export type Mistake = Schemas["Mistake"];
export type Problem = Schemas["Problem"];
export type Meta = Schemas["Meta"];
export type Role = Schemas["Role"];
export type Session = Schemas["Session"];
export type Algorithm = Schemas["Algorithm"];
export type CalendarUnit = Schemas["CalendarUnit"];
export type FailureMode = Schemas["FailureMode"];
export type FailurePolicy = Schemas["FailurePolicy"];
export type Domain = Schemas["Domain"];
export type Tier = Schemas["Tier"];
export type Limit = Schemas["Limit"];
export type HeaderMatch = Schemas["HeaderMatch"];
export type DescriptorMatch = Schemas["DescriptorMatch"];
export type Match = Schemas["Match"];
export type RuleMode = Schemas["RuleMode"];
export type Rule = Schemas["Rule"];
export type Shard = Schemas["Shard"];
export type Agent = Schemas["Agent"];
export type AgentSet = Schemas["AgentSet"];
export type AgentState = Schemas["Standing"];
export type Revision = Schemas["Revision"];
export type Token = Schemas["Token"];
export type NewToken = Schemas["NewToken"];
export type AuditEntry = Schemas["AuditEntry"];
export type Alert = Schemas["Alert"];
export type TimeSeries = Schemas["TimeSeries"];
export type TopSubject = Schemas["Offender"];
export type Denial = Schemas["Denial"];
export type Summary = Schemas["Summary"];
