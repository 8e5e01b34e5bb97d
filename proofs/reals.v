(* The real numbers of Coq's library are an ordered field, and their exponential function is the
   sum of its power series: what exponential.v asks for holds for them, and so do all theorems that
   rest on it.

   No theorem of the registry of claims needs this file. It is the one that is not free of axioms: Coq's
   real numbers rest on classical logic: excluded middle, equality of functions with equal values,
   and choice. *)
From Coq Require Import Reals ClassicalEpsilon FunctionalExtensionality.
From mathcomp Require Import all_ssreflect all_algebra.
Require Import exponential.
Require boltzmann_and_hardmax four_questions_2.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Local Open Scope R_scope.
(* Equality is decidable, and a real number can be chosen. *)
Definition eqr (x y : R) : bool := if Req_EM_T x y is left _ then true else false.
Lemma eqrP : Equality.axiom eqr.
Proof. by move=> x y; rewrite /eqr; case: Req_EM_T => h; constructor. Qed.
Canonical R_eqMixin := EqMixin eqrP.
Canonical R_eqType := Eval hnf in EqType R R_eqMixin.
Definition pick (P : pred R) (n : nat) :=
  let x := epsilon (inhabits R0) (fun x => P x) in if P x then Some x else None.
Lemma pick_some P n x : pick P n = Some x -> P x.
Proof. by rewrite /pick; case: ifP => // Px [<-]. Qed.
Lemma pick_ex (P : pred R) : (exists x, P x) -> exists n, pick P n.
Proof.
by move=> ex; exists 0%N; rewrite /pick (epsilon_spec (inhabits R0) (fun x => P x) ex).
Qed.
Lemma pick_ext (P Q : pred R) : P =1 Q -> pick P =1 pick Q.
Proof. by move=> PQ n; have -> : P = Q by apply: functional_extensionality. Qed.
Definition R_choiceMixin : choiceMixin R := Choice.Mixin pick_some pick_ex pick_ext.
Canonical R_choiceType := Eval hnf in ChoiceType R R_choiceMixin.

(* The field. *)
Lemma addA : associative Rplus. Proof. by move=> x y z; rewrite Rplus_assoc. Qed.
Definition R_zmodMixin := ZmodMixin addA Rplus_comm Rplus_0_l Rplus_opp_l.
Canonical R_zmodType := Eval hnf in ZmodType R R_zmodMixin.
Lemma mulA : associative Rmult. Proof. by move=> x y z; rewrite Rmult_assoc. Qed.
Lemma mulD : left_distributive Rmult Rplus.
Proof. by move=> x y z; rewrite Rmult_plus_distr_r. Qed.
Lemma one_neq0 : R1 != R0. Proof. by apply/eqrP/R1_neq_R0. Qed.
Definition R_ringMixin := RingMixin mulA Rmult_1_l Rmult_1_r mulD Rmult_plus_distr_l one_neq0.
Canonical R_ringType := Eval hnf in RingType R R_ringMixin.
Canonical R_comRingType := Eval hnf in ComRingType R Rmult_comm.
Lemma mulV x : x != R0 -> Rinv x * x = R1.
Proof. by move=> /eqrP x0; apply: Rinv_l. Qed.
Lemma inv0 : Rinv R0 = R0. Proof. exact: Rinv_0. Qed.
Definition R_unitMixin := FieldUnitMixin mulV inv0.
Canonical R_unitRingType := Eval hnf in UnitRingType R R_unitMixin.
Canonical R_comUnitRingType := Eval hnf in [comUnitRingType of R].
Lemma R_field : GRing.Field.mixin_of R_unitRingType. Proof. by []. Qed.
Canonical R_idomainType := Eval hnf in IdomainType R (FieldIdomainMixin R_field).
Canonical R_fieldType := FieldType R R_field.

(* The order. *)
Definition ler (x y : R) : bool := if Rle_dec x y is left _ then true else false.
Definition ltr (x y : R) : bool := if Rlt_dec x y is left _ then true else false.
Lemma lerP x y : reflect (x <= y) (ler x y).
Proof. by rewrite /ler; case: Rle_dec => h; constructor. Qed.
Lemma ltrP x y : reflect (x < y) (ltr x y).
Proof. by rewrite /ltr; case: Rlt_dec => h; constructor. Qed.
Lemma leD x y : ler 0 x -> ler 0 y -> ler 0 (x + y).
Proof. by move=> /lerP x0 /lerP y0; apply/lerP/Rplus_le_le_0_compat. Qed.
Lemma leM x y : ler 0 x -> ler 0 y -> ler 0 (x * y).
Proof. by move=> /lerP x0 /lerP y0; apply/lerP/Rmult_le_pos. Qed.
Lemma le_anti x : ler 0 x -> ler x 0 -> x = 0.
Proof. by move=> /lerP x0 /lerP x1; apply: Rle_antisym. Qed.
Lemma sub_ge0 x y : ler 0 (y + - x) = ler x y.
Proof.
by apply/lerP/lerP => h; apply: Rge_le; [apply: Rminus_ge | apply: Rge_minus]; apply: Rle_ge.
Qed.
Lemma le_total x y : ler x y || ler y x.
Proof.
case: (Rle_or_lt x y) => h; apply/orP; [left | right]; apply/lerP => //.
exact: Rlt_le.
Qed.
Lemma normN x : Rabs (- x) = Rabs x. Proof. exact: Rabs_Ropp. Qed.
Lemma norm_ge0 x : ler 0 x -> Rabs x = x.
Proof. by move=> /lerP x0; apply: Rabs_right; apply: Rle_ge. Qed.
Lemma lt_def x y : ltr x y = (y != x) && ler x y.
Proof.
apply/ltrP/andP => [xy|[/eqrP yx /lerP [//|e]]]; last by case: yx.
by split; [apply/eqrP => e; case: (Rlt_irrefl x); rewrite -{2}e | apply/lerP/Rlt_le].
Qed.
Definition R_leMixin : realLeMixin R_idomainType :=
  RealLeMixin leD leM le_anti sub_ge0 (le_total 0) normN norm_ge0 lt_def.
Canonical R_porderType := POrderType ring_display R R_leMixin.
Canonical R_latticeType := LatticeType R R_leMixin.
Canonical R_distrLatticeType := DistrLatticeType R R_leMixin.
Canonical R_orderType := OrderType R le_total.
Canonical R_numDomainType := NumDomainType R R_leMixin.
Canonical R_normedZmodType := NormedZmodType R R R_leMixin.
Canonical R_numFieldType := [numFieldType of R].
Canonical R_realDomainType := [realDomainType of R].
Canonical R_realFieldType := [realFieldType of R].

(* The exponential function. *)
Lemma natE n : (n%:R)%R = INR n :> R.
Proof. by elim: n => // n IH; rewrite S_INR -IH -addn1 GRing.natrD. Qed.
Lemma powE x n : (x ^+ n)%R = pow x n :> R.
Proof. by elim: n => // n IH; rewrite GRing.exprS IH. Qed.
Lemma factE n : fact n = n`!.
Proof. by elim: n => // n IH; rewrite factS -IH. Qed.
Theorem exp_is_exponential : exponential (exp : R_realFieldType -> R_realFieldType).
Proof.
move=> x eps /ltrP e0; rewrite /exp; case: exist_exp => l /= /(_ eps e0)[N lim].
exists N.+1 => -[//|n] Nn; apply/ltrP.
suff -> : partial x n.+1 = sum_f_R0 (fun i => / INR (fact i) * x ^ i) n.
  exact: lim n (@leP N n Nn).
have term k : (x ^+ k / k`!%:R)%R = / INR (fact k) * x ^ k.
  by rewrite powE natE -factE Rmult_comm.
elim: n {Nn} => [|n IH]; first by rewrite /partial big_ord_recl big_ord0 GRing.addr0 term.
by rewrite /partial big_ord_recr /= -/(partial x n.+1) IH term.
Qed.
Theorem ln_is_logarithm : logarithm (exp : R_realFieldType -> R_realFieldType) ln.
Proof. by move=> y /ltrP; apply: exp_ln. Qed.

(* So the theorems hold for real numbers; two of them, for example. *)
Definition log_sum_exp_met N (a : 'I_N.+1 -> R_realFieldType) :=
  boltzmann_and_hardmax.log_sum_exp exp_is_exponential ln_is_logarithm a.
Definition collapse_met := four_questions_2.rank_two_keeps_exp exp_is_exponential.
