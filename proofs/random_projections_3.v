(* Page 6: Random projections of attention (Definition 6.1, Proposition 6.15, and the laws of
   entries that Theorem 6.4 and Proposition 6.13 speak of) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities random_projections.
Import Mean.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Entries with kappa = 3, as Gaussian ones have *)
Module Kappa3.
Section Law.
Variable F : realFieldType.
(* The law of an entry is given by its mean mu. What is asked of it is true of N(0, v), which is not
   proved here: the mean is 0, the variance v, and E (X + Y)^4 = 4 E X^4 for two independent copies, as
   their sum over sqrt 2 has the same law. Other laws have it, too: see ach_kappa3 below. *)
Definition kappa3 v (mu : (F -> F) -> F) := [/\ is_mean mu, mu (fun x => x) = 0,
  mu (fun x => x ^+ 2) = v &
  mu (fun x => mu (fun y => (x + y) ^+ 4)) = 4%:R * mu (fun x => x ^+ 4)].
(* Theorem 6.4: such entries have kappa = 3. *)
Theorem fourth_moment v mu : kappa3 v mu -> mu (fun x => x ^+ 4) = 3%:R * v ^+ 2.
Proof.
case=> me m1 m2 stable; pose m4 := mu (fun x => x ^+ 4); rewrite -/m4 in stable *; pose m3 := mu (fun x => x ^+ 3).
have inner x : mu (fun y => (x + y) ^+ 4) = x ^+ 4 + 6%:R * v * x ^+ 2 + 4%:R * m3 * x + m4.
  rewrite (@Eext _ _ _ me _ (fun y => x ^+ 4 * 1 + (4%:R * x ^+ 3 * y + (6%:R * x ^+ 2 * y ^+ 2 +
    (4%:R * x * y ^+ 3 + y ^+ 4))))) => [|y]; last by ident.
  rewrite (ED me) (EZ me) (Ecst me) (ED me) (EZ me) m1 (ED me) (EZ me) m2 (ED me) (EZ me) -/m3 -/m4.
  by ident.
move: stable; rewrite (@Eext _ _ _ me _ _ inner).
rewrite (@Eext _ _ _ me _ (fun x => x ^+ 4 + (6%:R * v * x ^+ 2 + (4%:R * m3 * x + m4 * 1)))) => [|x];
  last by rewrite mulr1 !addrA.
rewrite (ED me) (ED me) (EZ me) m2 (ED me) (EZ me) m1 (EZ me) (Ecst me) -/m4 => e.
have {}e : m4 *+ 2 = 6%:R * v * v.
  transitivity (4%:R * m4 - m4 *+ 2); first by ident.
  by rewrite -e; ident.
apply: (@mulIf _ 2%:R); first by rewrite pnatr_eq0.
by rewrite mulr_natr e; ident.
Qed.
End Law.

Section Entries.
Variables (F : realFieldType) (Om : Type) (E : (Om -> F) -> F) (k n : nat).
Variable R : Om -> 'M[F]_(k, n).
(* Independent entries, as N(0, 1/k). *)
Definition kappa3_entries :=
  independent E R /\ forall a i, kappa3 k%:R^-1 (fun f => E (fun o => f (R o a i))).
Hypotheses (ME : is_mean E) (k0 : (0 < k)%N) (g : kappa3_entries).
Lemma kappa3_moments : moments E R 3%:R.
Proof.
move=> a i; have [_ /(_ a i) ga] := g; have [_ m1 m2 _] := ga.
by split; rewrite ?m1 ?m2 // (fourth_moment ga).
Qed.
(* Theorem 6.4 (Mean-square law), (6.5), for any independent entries with these moments. *)
Theorem law kappa m (P : 'M[F]_(m, n)) (w : 'cV[F]_n) : independent E R -> moments E R kappa ->
  E (fun o => sqnorm (P *m (R o)^T *m R o *m w - P *m w)) = k%:R^-1 * (sqnorm P * sqnorm w +
    sqnorm (P *m w) + (kappa - 3%:R) * \sum_j w j 0 ^+ 2 * sqnorm (P *m (delta_mx j 0 : 'cV_n))).
Proof. by move=> ind mo; exact: (mean_square ME k0 ind mo). Qed.
(* Theorem 6.4 for kappa = 3: the last sum drops out. *)
Theorem kappa3_mean_square m (P : 'M[F]_(m, n)) (w : 'cV[F]_n) :
  E (fun o => sqnorm (P *m (R o)^T *m R o *m w - P *m w)) =
  k%:R^-1 * (sqnorm P * sqnorm w + sqnorm (P *m w)).
Proof.
by have [ind _] := g; rewrite (mean_square ME k0 ind kappa3_moments) subrr mul0r addr0.
Qed.
(* Proposition 6.13 (Worse than zero), for kappa = 3: (6.14), above |P|^2 for k <= n, and the best
   multiple. *)
Theorem kappa3_worse_than_zero m (P : 'M[F]_(m, n)) :
  let loss c := E (fun o => sqnorm (c *: (P *m (R o)^T *m R o) - P)) in
  let c0 := k%:R / (n + k + 1)%:R in
  [/\ E (fun o => sqnorm (P *m (R o)^T *m R o - P)) = (n + 1)%:R / k%:R * sqnorm P,
      P != 0 -> (k <= n)%N -> sqnorm P < E (fun o => sqnorm (P *m (R o)^T *m R o - P)),
      loss c0 = (1 - c0) * sqnorm P & forall c, loss c0 <= loss c].
Proof.
have [ind _] := g; have mo := kappa3_moments; have e : 3%:R = 3%:R :> F by [].
move=> loss c0; have [l0 low] := best_multiple ME k0 ind mo e P.
by split=> //; [apply: worse_than_zero | move=> ? ?; apply: above_zero].
Qed.
End Entries.
End Kappa3.

(* Entries with finitely many values *)
Module Finite.
Section Finite.
Variables (F : realFieldType) (k n : nat) (T : finType) (p val : T -> F).
Hypothesis p1 : \sum_t p t = 1.
(* A draw gives each entry (a, i) one of the values val t, with chance p t. *)
Definition draw := {ffun 'I_k * 'I_n -> T}.
Local Notation mean := (@expectation F _ T p).
Definition entries (o : draw) : 'M[F]_(k, n) := \matrix_(a, i) val (o (a, i)).
Theorem is_mean_mean : is_mean (mean : (draw -> F) -> F).
Proof.
split=> [a b f g|f g e|]; last 1 first.
- have := expectation_prod p (fun (_ : 'I_k * 'I_n) _ => 1); rewrite [RHS]big1 => [|x _].
    by move=> e; apply: etrans e; apply: eq_bigr => o _; rewrite [X in _ = _ * X]big1.
  by rewrite -[RHS]p1; apply: eq_bigr => t _; rewrite mulr1.
- rewrite /expectation !mulr_sumr -big_split; apply: eq_bigr => o _ /=; ident.
by apply: eq_bigr => o _; rewrite e.
Qed.
Theorem independent_entries : independent mean entries.
Proof.
move=> e; transitivity (mean (fun o => \prod_x val (o x) ^+ e x)).
  apply: eq_bigr => o _; congr (_ * _); apply: eq_bigr => -[a i] _; by rewrite mxE.
rewrite (expectation_prod p (fun x t => val t ^+ e x)); apply: eq_bigr => -[a i] _.
rewrite -(expectation_one p1 (a, i) (fun t => val t ^+ e (a, i))); apply: eq_bigr => o _.
by rewrite mxE.
Qed.
(* The moments of the entries are those of the values. *)
Theorem moments_entries (kappa : F) : \sum_t p t * val t = 0 -> \sum_t p t * val t ^+ 2 = k%:R^-1 ->
  \sum_t p t * val t ^+ 4 = kappa * k%:R^-1 ^+ 2 -> moments mean entries kappa.
Proof.
have power e a i : mean (fun o => entries o a i ^+ e) = \sum_t p t * val t ^+ e.
  rewrite -(expectation_one p1 (a, i) (fun t => val t ^+ e)); apply: eq_bigr => o _; by rewrite mxE.
move=> m1 m2 m4; rewrite /moments => a i; split; rewrite ?power //.
rewrite -m1 -(expectation_one p1 (a, i) val); apply: eq_bigr => o _; by rewrite mxE.
Qed.
End Finite.

Section Families.
Variables (F : rcfType) (k : nat).
Hypothesis k0 : (0 < k)%N.
Let kR : k%:R != 0 :> F. Proof. by rewrite pnatr_eq0 -lt0n. Qed.
Let kV : 0 <= k%:R^-1 :> F. Proof. by rewrite invr_ge0 ler0n. Qed.
Let two : 2%:R * 2%:R^-1 = 1 :> F. Proof. by rewrite divff // pnatr_eq0. Qed.
Let six : 6%:R * 6%:R^-1 = 1 :> F. Proof. by rewrite divff // pnatr_eq0. Qed.
Lemma sum_bool (f : bool -> F) : \sum_b f b = f true + f false.
Proof. by rewrite (bigD1 true) //= (bigD1 false) //= big1 ?addr0 // => -[]. Qed.
(* Rademacher: signs +-1/sqrt k. *)
Definition sign_chance (_ : bool) : F := 2%:R^-1.
Definition sign_value (b : bool) : F := if b then Num.sqrt k%:R^-1 else - Num.sqrt k%:R^-1.
Lemma sign_sum : \sum_b sign_chance b = 1.
Proof. by rewrite sum_bool -mulr2n -mulr_natl. Qed.
Definition rademacher n := @entries F k n _ sign_value.
Theorem sign_moments n : moments (expectation sign_chance) (rademacher (n := n)) 1.
Proof.
have s2 : Num.sqrt k%:R^-1 ^+ 2 = k%:R^-1 :> F by rewrite sqr_sqrtr.
apply: moments_entries; first exact: sign_sum; rewrite sum_bool /sign_value /sign_chance.
- by rewrite mulrN subrr.
- by rewrite sqrrN s2; transitivity (2%:R * 2%:R^-1 * k%:R^-1 : F); [ident | rewrite two mul1r].
rewrite -[4%N]/(2 * 2)%N !exprM sqrrN s2.
by transitivity (2%:R * 2%:R^-1 * k%:R^-1 ^+ 2 : F); [ident | rewrite two].
Qed.
(* Achlioptas: sqrt (3/k) times 1, 0, -1 with chances 1/6, 2/3, 1/6. *)
Definition ach_chance (t : option bool) : F := if t is Some _ then 6%:R^-1 else 4%:R * 6%:R^-1.
Definition ach_value (t : option bool) : F :=
  if t is Some b then (if b then 1 else -1) * Num.sqrt (3%:R / k%:R) else 0.
Lemma sum_opt (f : option bool -> F) : \sum_t f t = f None + f (Some true) + f (Some false).
Proof.
rewrite (bigD1 None) //= (bigD1 (Some true)) //= (bigD1 (Some false)) //= big1 ?addr0 ?addrA //.
by do 2!case.
Qed.
Lemma ach_sum : \sum_t ach_chance t = 1.
Proof. by rewrite sum_opt -[RHS]six /ach_chance; ident. Qed.
Definition achlioptas n := @entries F k n _ ach_value.
Theorem ach_moments n : moments (expectation ach_chance) (achlioptas (n := n)) 3%:R.
Proof.
pose s : F := Num.sqrt (3%:R / k%:R).
have s2 : s ^+ 2 = 3%:R / k%:R by rewrite sqr_sqrtr // divr_ge0 ?ler0n.
have s4 : s ^+ 4 = 9%:R * k%:R^-1 ^+ 2 by rewrite (exprM s 2 2) s2; ident.
apply: moments_entries; first exact: ach_sum; rewrite sum_opt /ach_value /ach_chance -/s.
- by ident.
- transitivity (2%:R * 6%:R^-1 * s ^+ 2); first by ident.
  by rewrite s2; transitivity (6%:R * 6%:R^-1 * k%:R^-1 : F); [ident | rewrite six mul1r].
transitivity (2%:R * 6%:R^-1 * s ^+ 4); first by ident.
rewrite s4; transitivity (6%:R * 6%:R^-1 * (3%:R * k%:R^-1 ^+ 2) : F); first by ident.
by rewrite six mul1r.
Qed.
(* Theorem 6.4: kappa = 1 for signs, kappa = 3 for Achlioptas. *)
Theorem sign_mean_square m n (P : 'M[F]_(m, n)) (w : 'cV[F]_n) :
  let R := @rademacher n in
  expectation sign_chance (fun o => sqnorm (P *m (R o)^T *m R o *m w - P *m w)) = k%:R^-1 *
    (sqnorm P * sqnorm w + sqnorm (P *m w) +
    (1 - 3%:R) * \sum_j w j 0 ^+ 2 * sqnorm (P *m (delta_mx j 0 : 'cV_n))).
Proof.
apply: mean_square => //; [exact/is_mean_mean/sign_sum | exact/independent_entries/sign_sum |].
exact: sign_moments.
Qed.
Theorem ach_mean_square m n (P : 'M[F]_(m, n)) (w : 'cV[F]_n) : let R := @achlioptas n in
  expectation ach_chance (fun o => sqnorm (P *m (R o)^T *m R o *m w - P *m w)) =
    k%:R^-1 * (sqnorm P * sqnorm w + sqnorm (P *m w)).
Proof.
move=> R; rewrite (@mean_square F _ _ _ k n _ 3%:R) ?subrr ?mul0r ?addr0 //.
- exact/is_mean_mean/ach_sum.
- exact/independent_entries/ach_sum.
exact: ach_moments.
Qed.
(* Instance of Kappa3.kappa3: what it asks of a law is true of the values of Achlioptas. *)
Example ach_kappa3 : Kappa3.kappa3 k%:R^-1 (fun f => \sum_t ach_chance t * f (ach_value t)).
Proof.
pose s : F := Num.sqrt (3%:R / k%:R).
have s2 : s ^+ 2 = 3%:R / k%:R by rewrite sqr_sqrtr // divr_ge0 ?ler0n.
pose c : F := 6%:R^-1; have c6 : 6%:R * c = 1 by [].
split.
- split=> [a b f g|f g e|].
  + by rewrite !mulr_sumr -big_split; apply: eq_bigr => t _ /=; ident.
  + by apply: eq_bigr => t _; rewrite e.
  by rewrite -[RHS]ach_sum; apply: eq_bigr => t _; rewrite mulr1.
- by rewrite sum_opt /ach_value /ach_chance -/s; ident.
- rewrite sum_opt /ach_value /ach_chance -/s -/c; transitivity (2%:R * c * s ^+ 2); first by ident.
  by rewrite s2; transitivity (6%:R * c * k%:R^-1 : F); [ident | rewrite c6 mul1r].
rewrite !sum_opt /ach_value /ach_chance -/s -/c.
(* both sides are 4 m4; the left one is (2 m4 + 6 m2^2), with m2 = 2 c s^2 and m4 = 2 c s^4 *)
transitivity (4%:R * c * s ^+ 4 * (4%:R * c + c + c) + 24%:R * c * c * s ^+ 4); first by ident.
have -> : 24%:R * c * c * s ^+ 4 = 6%:R * c * (4%:R * c * s ^+ 4) by ident.
have -> : 4%:R * c + c + c = 6%:R * c by ident.
by rewrite c6; ident.
Qed.
End Families.
End Finite.
