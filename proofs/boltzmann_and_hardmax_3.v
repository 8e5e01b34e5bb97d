(* Page 16, page one_layer_memorization/boltzmann_and_hardmax, continued.
   Proposition 16.4 (the identity) and Proposition 16.13: boltzmann.gap, .near-miss. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities exponential boltzmann_and_hardmax_2.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Proposition 16.4 (The gap as a sum): the identity (16.3), with E k for e^(s z_k) ---- *)
Section Gap.
Variable R : comRingType.
Theorem gap n (m m' z E : 'I_n -> R) :
  let P := \sum_k m k * E k in let P' := \sum_k m' k * E k in
  (\sum_k m k * z k * E k) * P' - (\sum_k m' k * z k * E k) * P =
  \sum_(i < n) \sum_(j < n | (i < j)%N) (m i * m' j - m j * m' i) * (z i - z j) * (E i * E j).
Proof.
move=> P P'; rewrite ![in LHS]mulr_suml -sumrB.
pose a (i j : 'I_n) := m i * z i * E i * (m' j * E j) - m' i * z i * E i * (m j * E j).
transitivity (\sum_i \sum_j a i j).
  by apply: eq_bigr => i _; rewrite !mulr_sumr -sumrB.
have split (f : 'I_n -> 'I_n -> R) : (forall i, f i i = 0) ->
    \sum_i \sum_j f i j = \sum_(i < n) \sum_(j < n | (i < j)%N) (f i j + f j i).
  move=> f0; under [RHS]eq_bigr do rewrite big_split;
    rewrite big_split /= [X in _ + X](exchange_big_dep predT) //=.
  rewrite -big_split /=; apply: eq_bigr => i _; rewrite (bigID (fun j : 'I_n => (i < j)%N)) /=;
    congr (_ + _).
  rewrite (bigID (fun j : 'I_n => (j < i)%N)) /= [X in _ + X]big1 ?addr0 => [|j].
    by apply: eq_bigl => j; rewrite -leqNgt andbC; case: ltngtP.
  by rewrite -!leqNgt => /andP[ji ij]; rewrite (_ : j = i) ?f0 //; apply/val_inj/anti_leq/andP.
rewrite split => [|i]; last by rewrite /a; ident.
by apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite /a; ident.
Qed.
End Gap.

(* ---- Proposition 16.13 (The near miss) ---- *)
Section NearMiss.
(* R has square roots, as the real numbers have. *)
Variables (R : rcfType) (exp ln : R -> R).
Hypotheses (expE : exponential exp) (lnE : logarithm exp ln).
Let expD := expD expE.        Let exp_gt0 := exp_gt0 expE.        Let exp_ge := exp_ge expE.
Let lnK := lnK lnE.           Let expK := expK expE lnE.          Let exp0 := exp0 expE.
(* The theorem of Lindemann: e^x is not algebraic for algebraic x other than 0. *)
Hypothesis Lindemann : forall x, alg x -> x != 0 -> ~ alg (exp x).

(* Sets seen from token 1: the logits are beta times the numbers. *)
Definition avg (xs : seq nat) beta :=
  (\sum_(x <- xs) x%:R * exp (beta * x%:R)) / \sum_(x <- xs) exp (beta * x%:R).
Definition A := [:: 1; 2; 5; 6]%N.
Definition B := [:: 1; 3; 4; 6]%N.
Definition h (x : R) := x ^+ 4 - 4%:R * x ^+ 3 + 4%:R * x ^+ 2 - 4%:R * x + 1.

Lemma expn beta n : exp (beta * n%:R) = exp beta ^+ n.
Proof.
elim: n => [|n IH]; first by rewrite mulr0 exp0.
by rewrite -addn1 natrD mulrDr mulr1 expD IH addn1 exprSr.
Qed.

(* (16.13): the two averages agree at beta > 0 if and only if h(e^beta) = 0. *)
Lemma crossing beta : 0 < beta -> (avg A beta == avg B beta) = (h (exp beta) == 0).
Proof.
move=> b0; set x := exp beta; have x0 : 0 < x := exp_gt0 beta.
have x1 : 1 < x by apply: lt_le_trans (exp_ge beta); rewrite ltr_addl.
have pos (xs : seq nat) k : 0 < \sum_(y <- k :: xs) exp (beta * y%:R).
  by rewrite big_cons ltr_paddr // sumr_ge0 // => i _; apply: ltW.
rewrite /avg eqr_div ?lt0r_neq0 ?pos // -[LHS]subr_eq0 !big_cons !big_nil !expn -/x.
set T := (X in (X == 0) = _).
have -> : T = - (x ^+ 3 * (x - 1) * (x + 1) ^+ 3) * h x by rewrite /T /h; ident.
have y0 : 0 < x + 1 by rewrite addr_gt0 ?ltr01.
have nz : 0 < x ^+ 3 * (x - 1) * (x + 1) ^+ 3.
  by apply: mulr_gt0; [apply: mulr_gt0; [exact: exprn_gt0|rewrite subr_gt0]|exact: exprn_gt0].
by rewrite mulf_eq0 oppr_eq0 (gt_eqF nz).
Qed.

(* h(x) = x^2 (y^2 - 4y + 2), y = x + 1/x: the zero above 1 is the larger root of x^2 - Yx + 1,
   Y = 2 + sqrt 2. *)
Definition Y : R := 2%:R + Num.sqrt 2%:R.
Definition root : R := (Y + Num.sqrt (Y ^+ 2 - 4%:R)) / 2%:R.
Lemma r2 : Num.sqrt 2%:R ^+ 2 = 2%:R :> R. Proof. by rewrite sqr_sqrtr ?ler0n. Qed.
Lemma r2_gt0 : 0 < Num.sqrt 2%:R :> R. Proof. by rewrite sqrtr_gt0 ltr0n. Qed.
Lemma Y2 : 2%:R < Y. Proof. by rewrite ltr_addl r2_gt0. Qed.
Lemma Y4 : 0 < Y ^+ 2 - 4%:R.
Proof.
have -> : Y ^+ 2 - 4%:R = (Y - 2%:R) * (Y + 2%:R) by ident.
by rewrite mulr_gt0 // ?subr_gt0 ?Y2 // addr_gt0 ?ltr0n // (lt_trans _ Y2) ?ltr0n.
Qed.

Lemma h_root x : 1 < x -> (h x == 0) = (x == root).
Proof.
move=> x1; have x0 : 0 < x := lt_trans ltr01 x1.
pose Y' : R := 2%:R - Num.sqrt 2%:R.
have hE : h x = (x ^+ 2 - Y * x + 1) * (x ^+ 2 - Y' * x + 1).
  rewrite /h /Y /Y'; transitivity (x ^+ 4 - 4%:R * x ^+ 3 +
    (6%:R - (Num.sqrt 2%:R) ^+ 2) * x ^+ 2 - 4%:R * x + 1); last by ident.
  by rewrite r2; ident.
have other : x ^+ 2 - Y' * x + 1 != 0.
  have -> : x ^+ 2 - Y' * x + 1 = (x - 1) ^+ 2 + Num.sqrt 2%:R * x by rewrite /Y'; ident.
  by rewrite gt_eqF // ltr_paddl ?sqr_ge0 // mulr_gt0 ?r2_gt0.
rewrite hE mulf_eq0 (negbTE other) orbF.
have sq : Num.sqrt (Y ^+ 2 - 4%:R) ^+ 2 = Y ^+ 2 - 4%:R by rewrite sqr_sqrtr // ltW // Y4.
have two : 2%:R != 0 :> R by rewrite pnatr_eq0.
apply/eqP/eqP => [e|->].
  (* (2 x - Y)^2 = Y^2 - 4 and 2 x - Y = x - 1/x > 0. *)
  have d0 : 0 < 2%:R * x - Y.
    rewrite -(pmulr_rgt0 _ x0).
    have -> : x * (2%:R * x - Y) = (x ^+ 2 - Y * x + 1) + (x - 1) * (x + 1) by ident.
    by rewrite e add0r mulr_gt0 ?subr_gt0 // addr_gt0 ?ltr01.
  have : (2%:R * x - Y) ^+ 2 = Y ^+ 2 - 4%:R.
    transitivity (4%:R * (x ^+ 2 - Y * x + 1) + (Y ^+ 2 - 4%:R)); first by ident.
    by rewrite e mulr0 add0r.
  move=> /(congr1 Num.sqrt); rewrite sqrtr_sqr gtr0_norm // => es.
  by rewrite /root -es addrCA subrr addr0 mulrC mulKf.
rewrite /root; set r := Num.sqrt _ in sq *; apply: (mulfI two); apply: (mulfI two).
transitivity ((2%:R * ((Y + r) / 2%:R)) ^+ 2 - Y * 2%:R * (2%:R * ((Y + r) / 2%:R)) + 4%:R).
  by ident.
rewrite [2%:R * _]mulrC divfK //; transitivity (r ^+ 2 - (Y ^+ 2 - 4%:R)); first by ident.
by rewrite sq subrr !mulr0.
Qed.
Lemma root_gt1 : 1 < root.
Proof.
rewrite /root ltr_pdivl_mulr ?ltr0n // mul1r (lt_le_trans Y2) // ler_addl sqrtr_ge0 //.
Qed.

(* Proposition 16.13: equal averages at 0 and at exactly one positive beta, not algebraic. *)
Theorem near_miss : avg A 0 = avg B 0 /\ exists beta, [/\ 0 < beta,
  forall b, 0 < b -> (avg A b = avg B b <-> b = beta) & ~ alg beta].
Proof.
split; first by rewrite /avg !big_cons !big_nil !mul0r exp0; congr (_ / _); ident.
have x0 : 0 < root := lt_trans ltr01 root_gt1.
have b0 : 0 < ln root.
  have e : exp (ln root) = root := lnK x0.
  rewrite ltNge; apply/negP => le0.
  have : 1 <= exp (- ln root) by apply: le_trans (exp_ge _); rewrite ler_addl oppr_ge0.
  rewrite -(ler_pmul2l x0) -{2}e -expD subrr exp0 mulr1 leNgt; case/negP.
  exact: root_gt1.
have big b : 0 < b -> 1 < exp b by move=> bp; apply: lt_le_trans (exp_ge b); rewrite ltr_addl.
exists (ln root); split=> // [b bp|ab].
  split=> [/eqP|->]; last by apply/eqP; rewrite crossing // h_root ?big // lnK.
  by rewrite crossing // h_root ?big // => /eqP <-; rewrite expK.
(* e^beta is a root of h, so algebraic, which Lindemann forbids. *)
apply: (Lindemann ab (lt0r_neq0 b0)); rewrite lnK //.
pose P : {poly rat} := Poly [:: 1; - 4%:R; 4%:R; - 4%:R; 1].
have P0 : P != 0 by apply/eqP => /(congr1 (fun q : {poly rat} => q`_0)); rewrite coef0 coef_Poly.
exists P => //; rewrite /poly.root /P map_Poly_id0 ?rmorph0 // horner_Poly /=.
rewrite !rmorphN /= !rmorph_nat rmorph1 mul0r add0r.
have : h root = 0 by apply/eqP; rewrite h_root ?root_gt1.
by move: root => r <-; apply/eqP; rewrite /h; ident.
Qed.
End NearMiss.
